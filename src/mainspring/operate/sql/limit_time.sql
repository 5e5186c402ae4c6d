-- Give this transaction's statements so much time.
select set_config('statement_timeout', %(milliseconds)s::text, true)
