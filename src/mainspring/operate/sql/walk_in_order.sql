-- For this transaction: the newest of many are read by an index in its order. The planner takes a queue of 5,000 parked visits
-- for a small one, and would rather fetch them all and sort.
select set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)
