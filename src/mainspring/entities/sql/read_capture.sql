-- The table that a kind's triggers are registered for; no row: none. Reads by seq scan: as many rows as kinds.
select relid::oid::bigint as relid from mainspring.captured where kind = %(kind)s::text
