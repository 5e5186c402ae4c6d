-- Take a record back that was put aside, in the transaction of its effects. No row: somebody else did, or it was dropped.
delete from mainspring.source_reject
where source = %(source)s::text and partition = %(partition)s::text and number = %(number)s::bigint and retry_at is not null
returning number
