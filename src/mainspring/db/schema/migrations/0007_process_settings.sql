-- The queue in which the engine works for a process: of the pool in which it was started. And what a layer declares of a
-- queue beyond the kernel's own settings (of an actor: work timeout, which result counts, retries), changed by operators.
-- The table `actor` was never used.
alter table mainspring.process add column engine text collate "C" not null default 'mainspring.process';
alter table mainspring.queue add column policy jsonb not null default '{}';
drop table mainspring.actor;
