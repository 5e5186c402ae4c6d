-- A document and its version. No row: there is none.
select body::text as body, version
from mainspring.document
where kind = %(kind)s::text and key = %(id)s::text
