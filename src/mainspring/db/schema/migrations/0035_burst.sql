-- How many may start at once after a quiet time, for a queue and for each of its groups; null: a tenth of a second's worth, one at least.
-- `rate_rested_at`: since when nobody has a part of the queue's rate. Null while somebody has, or when the last to have one died.
alter table mainspring.queue
  add column burst integer constraint queue_burst_check check (burst >= 1),
  add column group_burst integer constraint queue_group_burst_check check (group_burst >= 1),
  add column rate_rested_at timestamptz;
alter table mainspring.queue alter column rate_rested_at set default now();
