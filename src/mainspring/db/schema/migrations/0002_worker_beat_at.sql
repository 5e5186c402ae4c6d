-- When a worker was last heard of, for people to read. Who is dead is decided by the counter alone, never by this time.
alter table mainspring.worker add column beat_at timestamptz not null default mainspring.now();
