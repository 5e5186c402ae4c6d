-- The shard of a route: the first four bytes of the SHA-256 of its UTF-8 text, as one big-endian number, modulo the
-- shard count. The values must never change (rows are placed by them); Python has the twin in kernel/visit.py.
create or replace function mainspring.shard(route text, shard_count integer) returns integer
  language sql immutable strict parallel safe
  return (('x' || encode(substring(sha256(convert_to(route, 'UTF8')) for 4), 'hex'))::bit(32)::bigint % shard_count)::integer;
