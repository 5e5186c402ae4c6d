-- The process types that code declared, with their settings.
select name, settings::text from mainspring.process_type order by name
