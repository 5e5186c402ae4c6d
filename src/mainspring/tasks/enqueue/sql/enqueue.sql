-- Enqueue a task by its name, as plain SQL would. Answers its id, or that of the one that has its key.
select mainspring.enqueue(%(task)s::text, %(arguments)s::text::jsonb, %(due_at)s::timestamptz, %(priority)s::integer,
  %(grp)s::text, %(key)s::text) as id
