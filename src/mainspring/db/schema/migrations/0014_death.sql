-- Deaths of workers, and what they are blamed on: a run is counted only for a death that it can have caused. The release
-- before knows neither table: a death that it declares, or recovers from, counts as ever.
create table mainspring.death (
  worker_id uuid primary key,
  beat_at timestamptz not null,                       -- its last sign of life
  -- Only runs that began after this are blamed: infinity, it was cut off or still lives; a time, others fell silent with it.
  blames_since timestamptz not null default '-infinity'
);

-- The visits that a death was counted for. Should the worker turn out to live, it is taken back.
create table mainspring.blame (
  worker_id uuid not null references mainspring.death on delete cascade,
  shard integer not null,
  key text collate "C" not null,
  queue text collate "C" not null,
  id uuid not null,                                   -- the visit's: its key may be another's by then
  primary key (worker_id, shard, key, queue)
);
