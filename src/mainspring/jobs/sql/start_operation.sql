-- An operation begins: its row.
insert into mainspring.operation (kind, source, filter, total, created_at, changed_at)
values (%(kind)s::text, %(source)s::text, %(filter)s::text::jsonb, %(total)s::bigint, mainspring.now(), mainspring.now())
returning id, kind, source, filter::text as "order", state::text as state, total, done, failed, position::text as position, error,
  created_at, changed_at, ended_at
