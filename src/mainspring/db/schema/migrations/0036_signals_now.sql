-- A task may wait for a signal that is sent from now on only: later than the last one that was there when it began to
-- wait. Null: it takes those that were kept too. A restart gives a signal again, whoever waits how.
alter table mainspring.external add column since bigint;
alter table mainspring.signal add column again boolean not null default false;
