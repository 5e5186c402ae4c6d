-- What lies outside the days (a clock that was far off) is deleted by age, a part at a time.
with bundles as (
  delete from mainspring.history_bundle_other
  where ctid = any(array(
    select ctid from mainspring.history_bundle_other
    where day < (mainspring.now() at time zone 'UTC')::date - %(keep)s::integer limit 50))
)
delete from mainspring.history_other
where ctid = any(array(
  select ctid from mainspring.history_other
  where day < (mainspring.now() at time zone 'UTC')::date - %(keep)s::integer limit 5000))
