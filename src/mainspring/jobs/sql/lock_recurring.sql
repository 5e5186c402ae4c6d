-- Lock a schedule until the end of the transaction: who changes it reads what stands.
select name from mainspring.recurring where name = %(name)s::text for update
