-- What became of a call: its live row, or its last run in history. No row: unknown (functions/result_of.sql).
select state, result, error from mainspring.result_of(%(queue)s::text, %(id)s::uuid, %(key)s::text)
