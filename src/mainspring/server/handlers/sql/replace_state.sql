-- Compare and set a state from outside: true, false, or null where there is no entity (functions/set_state.sql says what it locks).
select mainspring.set_state(%(kind)s::text, %(id)s::text, %(stage)s::text, %(version)s::bigint, %(body)s::text::jsonb,
  %(schema)s::integer, %(message)s::bytea, %(message_type)s::text) as done
