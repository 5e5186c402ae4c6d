-- The call that waits behind a run of its key: its id, arguments, priority and times. What ends the visit puts it in its place, in the
-- same transaction, whoever that is: also a worker of the release before, which knows nothing of it (functions/unique.sql).
alter table mainspring.visit add column follow_up jsonb;
create function mainspring.follow_end() returns trigger language plpgsql as $$ begin return null; end $$;
create function mainspring.follow_park() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger follow_end after delete on mainspring.visit
  for each row when (old.follow_up is not null) execute function mainspring.follow_end();
create trigger follow_park after update of parked_at on mainspring.visit
  for each row when (old.follow_up is not null and new.parked_at is not null) execute function mainspring.follow_park();
