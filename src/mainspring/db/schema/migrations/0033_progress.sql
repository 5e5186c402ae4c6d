-- How far calls are, as their runs said last by ctx.progress(). A hint: written a few times a second for many runs at once, not
-- logged, and dropped a day after the last word.
create unlogged table mainspring.progress (
  id uuid primary key,
  attempt integer not null,
  done double precision not null check (done between 0 and 1),
  note text,
  changed_at timestamptz not null
) with (fillfactor = 70);
