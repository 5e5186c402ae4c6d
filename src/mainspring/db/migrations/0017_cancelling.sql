-- A process that is being cancelled and whose compensations still run: it is open until the last of them has ended, and
-- cancelled then. A column without a value changes no row; the release before neither reads nor writes it.
alter table mainspring.process add column cancelling_at timestamptz;
