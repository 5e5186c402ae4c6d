-- The secrets under which tickets are sealed, the newest first: that one seals. There are two at most.
select number, secret from mainspring.secret order by number desc limit 2
