-- Replace a document that still has the version that was read. No row: somebody was faster, or it is gone.
update mainspring.document
set body = %(body)s::text::jsonb
where kind = %(kind)s::text and key = %(id)s::text and version = %(version)s::bigint
returning version
