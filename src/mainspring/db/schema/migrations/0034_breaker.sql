-- Breakers: after so many failures in a row nothing of a queue, or of one of its groups, starts for a while. Then one run is tried, and
-- after each success twice as many may run. A row is there only while failures are counted or the breaker is not closed: what goes well
-- writes nothing. `grp` is empty for the whole queue; `at_once` is how many may run when `until` has passed.
alter table mainspring.queue
  add column breaker_failures integer constraint queue_breaker_failures_check check (breaker_failures >= 1),
  add column breaker_pause double precision constraint queue_breaker_pause_check check (breaker_pause > 0),
  add column breaker_within double precision constraint queue_breaker_within_check check (breaker_within > 0);
create table mainspring.breaker (
  queue text collate "C" not null,
  grp text collate "C" not null default '',
  failures integer not null default 0,
  failed_at timestamptz,
  opened_at timestamptz,
  until timestamptz,
  at_once integer,
  reason text,
  primary key (queue, grp),
  constraint breaker_open_check check ((opened_at is null) = (until is null) and (opened_at is null) = (at_once is null))
);
