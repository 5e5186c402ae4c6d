-- Rights: the tables that a kind's triggers may stand on, which only the owner of the schema writes; and queues that only some
-- roles may enqueue into.
create table mainspring.captured (
  relid regclass not null,                            -- the table, or the root of its partitions
  kind text collate "C" not null,
  primary key (relid, kind)
);
-- What was installed before: a trigger of ours on the very table that the kind names. Anybody could have made others.
insert into mainspring.captured (relid, kind)
select distinct k.relid, k.name
from (select k.name, to_regclass(k.source) as relid from mainspring.kind k where k.source not in ('document', 'dao')) k
join pg_trigger t on coalesce(pg_partition_root(t.tgrelid), t.tgrelid) = k.relid and not t.tgisinternal
join pg_proc p on p.oid = t.tgfoid and p.pronamespace = 'mainspring'::regnamespace
  and p.proname in ('capture', 'capture_row', 'capture_clear')
where split_part(encode(t.tgargs, 'escape'), '\000', 1) = k.name;

-- A queue with a row here is closed: by the functions only these roles and their members enqueue into it.
create table mainspring.entry (
  queue text collate "C" not null,
  role regrole not null,
  primary key (queue, role)
);

-- Rows that left a partition in a transaction under way, of tables that are captured row by row: whoever comes into another
-- partition before the end has moved, the others are deleted. Empty outside of transactions, so nothing is lost with it.
create unlogged table mainspring.leaving (
  id bigint generated always as identity primary key,
  kind text collate "C" not null,
  key text collate "C" not null,
  xact xid8 not null,
  body jsonb
);
create index leaving_key on mainspring.leaving (kind, key, xact);
