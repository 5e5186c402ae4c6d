-- Sources: how far records of brokers' partitions were taken in. A row is compared and set in the transaction of its records' effects.
-- next: the first record whose effects are not committed. reached: the greatest next there was; what is read below it is read again.
-- start: where to read from, for its reader to find out (earliest, latest, an instant); null: at next. known_end: the broker's end
-- when it was last looked at.
create table mainspring.source_offset (
  source text collate "C",
  partition text collate "C",
  next bigint not null default 0 constraint source_offset_next_check check (next >= 0),
  reached bigint not null default 0,
  start text,
  known_end bigint,
  looked_at timestamptz,
  moved_at timestamptz,
  found_at timestamptz not null default mainspring.now(),
  primary key (source, partition)
) with (fillfactor = 50);

-- Records that could not be mapped and were put aside, whole, until somebody orders what becomes of them.
create table mainspring.source_reject (
  source text collate "C",
  partition text collate "C",
  number bigint,
  topic text not null,
  key bytea,
  value bytea,
  headers bytea not null,
  happened_ms bigint not null,
  error_type text not null,
  error text not null,
  rejected_at timestamptz not null default mainspring.now(),
  retry_at timestamptz,
  primary key (source, partition, number)
);
