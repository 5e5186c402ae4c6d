-- What lies outside the days (a clock that was far off) is deleted by age, a page at a time.
delete from mainspring.history_other
where ctid = any(array(
  select ctid from mainspring.history_other
  where day < (mainspring.now() at time zone 'UTC')::date - %(keep)s::integer limit 5000))
