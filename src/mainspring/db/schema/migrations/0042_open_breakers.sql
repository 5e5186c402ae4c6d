-- Open breakers of groups by when they end: each worker reads the last of them at every beat, and passes over those that only count. Not
-- of whole queues, which the primary key finds.
create index breaker_open on mainspring.breaker (queue, until desc) where opened_at is not null and grp <> '';
