-- Note repairs, each with its source.
insert into mainspring.repair (process_id, task, rule, detail, source)
select %(process_id)s::uuid, task, rule, detail, %(source)s::text
from unnest(%(tasks)s::uuid[], %(rules)s::text[], %(details)s::text[]) as i(task, rule, detail)
