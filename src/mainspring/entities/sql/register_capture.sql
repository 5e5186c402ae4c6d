-- Let the triggers of a kind stand on this table (null: on none), and on no other. Only the owner of the schema may: a trigger that
-- is not registered sees nothing. Locks the kind's rows.
with gone as (
  delete from mainspring.captured where kind = %(kind)s::text and relid is distinct from %(relid)s::oid
)
insert into mainspring.captured (relid, kind)
select %(relid)s::oid, %(kind)s::text where %(relid)s::oid is not null
on conflict do nothing
