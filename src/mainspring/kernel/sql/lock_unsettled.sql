-- Lock a visit as this run read it, waiting for whoever has it. No row: it was settled, offered again or deleted.
select version
from mainspring.visit
where shard = %(shard)s::integer and key = %(key)s::text and queue = %(queue)s::text and version = %(version)s::bigint
for update
