-- Keep an operator's filter under a name, in the place of one that has it.
insert into mainspring.template (name, kind, filter, created_by, terms)
values (%(name)s::text, %(kind)s::text, %(filter)s::text::jsonb, %(created_by)s::text, %(terms)s::text::jsonb)
on conflict (name) do update
set kind = excluded.kind, filter = excluded.filter, created_by = excluded.created_by, terms = excluded.terms, created_at = mainspring.now()
returning name
