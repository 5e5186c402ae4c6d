-- Move a param back, in the transaction that is open (functions/advance.sql says how). Locks its row.
select answer, known_kind as kind, old
from mainspring.rewind_param(%(name)s::text, %(kind)s::text, %(given)s::text, %(chunks)s::bigint[], %(changed_by)s::text,
  %(why)s::text)
