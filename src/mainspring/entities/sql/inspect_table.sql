-- What a kind must know of its table: columns and their types (with schema, so that no search_path matters), the
-- column sets that are unique, the partitions. No row: no such table. Catalogue only; locks nothing.
select c.oid::bigint as oid, n.nspname as schema, c.relname as name, c.relkind::text as relkind,
  c.relispartition as is_partition, row_security_active(c.oid) as row_security,
  has_table_privilege(c.oid, 'TRIGGER') as may_trigger,
  (
    select json_agg(json_build_object(
      'name', a.attname,
      'type', quote_ident(tn.nspname) || '.' || quote_ident(t.typname)
        || case when t.typcategory in ('N', 'D', 'T')
             then coalesce((regexp_match(format_type(a.atttypid, a.atttypmod), '\([0-9,-]+\)'))[1], '') else '' end,
      'is_text', t.typcategory = 'S',
      'required', a.attnotnull,
      'generated', a.attgenerated <> '' or a.attidentity = 'a') order by a.attnum)
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    join pg_namespace tn on tn.oid = t.typnamespace
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  )::text as columns,
  (
    select coalesce(json_agg((
      select json_agg(a.attname) from unnest(i.indkey::smallint[]) with ordinality as k(attnum, n)
      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
      where k.n <= i.indnkeyatts
    ) order by i.indisprimary desc, i.indexrelid), '[]')
    from pg_index i
    where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indimmediate
      and i.indpred is null and i.indexprs is null
  )::text as uniques,
  (
    select coalesce(json_agg(json_build_object('oid', p.relid::oid::bigint, 'schema', pn.nspname, 'name', pc.relname,
      'leaf', p.isleaf) order by pn.nspname, pc.relname), '[]')
    from pg_partition_tree(c.oid) p
    join pg_class pc on pc.oid = p.relid
    join pg_namespace pn on pn.oid = pc.relnamespace
    where p.relid <> c.oid and pc.relkind in ('r', 'p')
  )::text as partitions,
  (
    select coalesce(json_agg(distinct a.attname), '[]')
    from pg_partition_tree(c.oid) p
    join pg_partitioned_table pt on pt.partrelid = p.relid
    cross join unnest(pt.partattrs::smallint[]) as k(attnum)
    join pg_attribute a on a.attrelid = pt.partrelid and a.attnum = k.attnum
  )::text as partition_keys
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass(%(name)s::text)
