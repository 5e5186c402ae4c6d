-- A process that is being cancelled and whose compensations still run: it is open until the last of them has ended, and
-- cancelled then. Columns without a value change no row; the release before neither reads nor writes them.
alter table mainspring.process add column cancelling_at timestamptz;

-- When the visit that looks at an open process was last known to be due: a good while after that it is looked for (P2).
-- One that was never looked for counts from its start.
alter table mainspring.process add column look_at timestamptz;
create index process_recovery on mainspring.process (coalesce(look_at, created_at)) where state = 'open';
