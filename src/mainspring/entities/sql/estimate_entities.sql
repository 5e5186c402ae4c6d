-- How many entities a kind has, as the server estimates; null where it cannot. Reads no row of the user's.
select case when k.source = 'document' then (select count(*) from mainspring.document d where d.kind = k.name)
  when k.source <> 'dao' then (
    select sum(greatest(c.reltuples, 0))::bigint
    from pg_class c
    where c.relkind <> 'p'
      and (c.oid = to_regclass(k.source)
        or c.oid in (select p.relid from pg_partition_tree(to_regclass(k.source)) p where p.isleaf)))
  end as entities
from mainspring.kind k
where k.name = %(kind)s::text
