-- Note an order in the transaction that carries it out. Locks nothing; one insert.
insert into mainspring.audit (actor, via, address, action, target, reason, details, result, operation)
values (%(actor)s::text, %(via)s::text, %(address)s::text, %(action)s::text, %(target)s::text, %(reason)s::text,
  %(details)s::text::jsonb, %(result)s::text, %(operation)s::bigint)
