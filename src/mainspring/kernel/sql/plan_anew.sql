-- Plan this transaction's statements for the values they have: a search by one field wants another plan than by another.
select set_config('plan_cache_mode', 'force_custom_plan', true)
