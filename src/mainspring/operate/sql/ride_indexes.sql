-- For this transaction: what is asked of parked visits rides an index. The planner takes types that are nowhere in the table's other rows
-- for nine tenths of the parked ones too, and would read them all to find that there are none.
select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
