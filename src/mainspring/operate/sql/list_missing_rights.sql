-- Which of these rights the role lacks: on tables, on functions, on the schema. Answers what is missing.
select r.privilege, r.object
from unnest(%(privileges)s::text[], %(objects)s::text[]) as r(privilege, object)
where not case
  when r.privilege = 'USAGE' then has_schema_privilege(r.object, r.privilege)
  when r.privilege = 'EXECUTE' then has_function_privilege(r.object, r.privilege)
  else has_table_privilege(r.object, r.privilege)
end
