-- Operations, newest first, before an id; of one state, or one alone.
select id, kind, source, filter::text as filter, state::text as state, total, done, failed, position::text as position, error,
  created_at, changed_at, ended_at
from mainspring.operation
where (%(id)s::bigint is null or id = %(id)s::bigint)
  and (%(before)s::bigint is null or id < %(before)s::bigint)
  and (%(state)s::text is null or state::text = %(state)s::text)
order by id desc
limit %(most)s::integer
