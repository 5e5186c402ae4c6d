-- The names of all params: to say which is nearest to one that is not there.
select name from mainspring.param order by name limit 10000
