-- Endpoints that a worker finds away, or coming back, are named in its row with their queues: [{endpoint, queues, since, reason,
-- at_once}]. For whoever asks why. A worker of the release before leaves it empty.
alter table mainspring.worker add column away jsonb not null default '[]';
