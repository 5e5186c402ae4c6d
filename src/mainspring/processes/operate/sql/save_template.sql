-- Keep an operator's filter under a name, in the place of one that has it.
insert into mainspring.template (name, kind, filter, created_by)
values (%(name)s::text, %(kind)s::text, %(filter)s::text::jsonb, %(created_by)s::text)
on conflict (name) do update
set kind = excluded.kind, filter = excluded.filter, created_by = excluded.created_by, created_at = mainspring.now()
returning name
