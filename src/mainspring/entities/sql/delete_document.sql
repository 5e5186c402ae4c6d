-- Delete a document, whatever its version or only with the one given. No row: it was not there.
delete from mainspring.document
where kind = %(kind)s::text and key = %(id)s::text and (%(version)s::bigint is null or version = %(version)s::bigint)
returning version
