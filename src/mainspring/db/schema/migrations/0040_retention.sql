-- For how long results and history of a queue are kept, where its code says so; and how far results have been dropped: upkeep goes
-- on from there, and begins anew once a day.
create table mainspring.retention (
  queue text collate "C" primary key,
  keep_result interval check (keep_result > interval '0'),
  keep_history interval check (keep_history > interval '0'),
  dropped_until timestamptz not null default '-infinity',
  dropped_run bigint not null default 0,
  begun_on date not null default '-infinity'
);
-- Which keys of a cipher a worker can open: of calls under others the doctor knows that nobody can.
create table mainspring.worker_cipher (
  worker_id uuid primary key references mainspring.worker (id) on delete cascade,
  keys text[] not null
);
