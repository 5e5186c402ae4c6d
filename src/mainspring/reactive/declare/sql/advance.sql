-- Set params, all or none, in the transaction that is open (functions/advance.sql says how). Locks param rows by name, then
-- writes their change visits. Answers one row a param.
select name, answer, kind, old, value, ahead
from mainspring.advance_params(%(names)s::text[], %(kinds)s::text[], %(given)s::text[], %(only_greater)s::boolean,
  %(changed_by)s::text, %(why)s::text)
