-- Runs that were overtaken, or told to end, and are still under way outside of their worker's slots: named in its row, for
-- whoever asks why. A worker of the release before leaves it empty.
alter table mainspring.worker add column hanging jsonb not null default '[]';
