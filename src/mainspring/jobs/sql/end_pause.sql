-- A schedule whose pause was to end by now goes on: ticks of the pause are not made up for. Nothing happens if it was changed meanwhile.
update mainspring.recurring
set changed_at = greatest(changed_at, paused_until - interval '1 microsecond'), paused_at = null, paused_until = null,
  pause_reason = null, revision = revision + 1
where name = %(name)s::text and revision = %(revision)s::bigint and paused_until <= mainspring.now()
