-- What lies outside the days (a clock that was far off, a day that was made late) is deleted by age, a part at a time.
delete from mainspring.event_kept_other
where ctid = any(array(
  select e.ctid from mainspring.event_kept_other e
  where e.day < (mainspring.now() - make_interval(secs => coalesce(
    (select max((k.declared ->> 'keep_events')::double precision) from mainspring.kind k), 0)))::date
  limit 5000))
