-- What an operator's restart makes of a visit's payload: the task timeout of a process's task is lifted, for it is to run.
-- The kernel calls this (restart_visits) and knows nothing of what a payload means.
create or replace function mainspring.restarted_payload(payload jsonb) returns jsonb
  language sql immutable
  return case when payload ?& array['@', 'deadline'] then payload - 'deadline' else payload end;
