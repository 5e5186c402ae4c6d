-- All tasks of a process: a range of the primary key.
select t.id::text, t.created_by::text, t.promise::text, t.actor, t.state::text, t.outcome::text, t.generation,
  t.scope_id::text, t.done_no, t.options::text, t.undo::text,
  case when t.actor = '@some_of' then t.args::text end as race
from mainspring.task t
where t.process_id = %(id)s::uuid
order by t.id
