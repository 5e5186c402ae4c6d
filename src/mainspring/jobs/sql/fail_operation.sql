-- An operation whose step keeps failing ends; its error is the last one of its visit.
update mainspring.operation o
set state = 'failed', ended_at = mainspring.now(), changed_at = mainspring.now(),
  error = (
    select v.error from mainspring.visit v
    where v.shard = %(shard)s::integer and v.key = %(key)s::text and v.queue = %(queue)s::text)
where o.id = %(id)s::bigint and o.state = 'running'
