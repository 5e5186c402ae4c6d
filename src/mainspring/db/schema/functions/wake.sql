-- Tell those who sleep that a queue has a visit due at a time: workers of its pool, and others who wait for it (sleeper).
-- A hint: nothing is lost without it.
-- NOTIFY takes a database-wide lock over the commit's flush, so it is sent only when somebody sleeps; the payload
-- is the same for all offers of one transaction, so they coalesce. The time lets readers step back to a visit whose
-- transaction lasted long.
create or replace function mainspring.wake(queue text, due_at timestamptz) returns void
  language plpgsql volatile
  as $$
begin
  if exists (
    select from mainspring.worker w
    where w.asleep and w.pool = (select q.pool from mainspring.queue q where q.name = wake.queue)
  ) or exists (
    select from mainspring.sleeper s where s.queue = wake.queue and s.until > pg_catalog.now()
  ) then
    perform pg_notify('mainspring', (extract(epoch from due_at) * 1000000)::bigint::text || ' ' || queue);
  end if;
end
$$;
